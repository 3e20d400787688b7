function bytesOf(name, array) {
  const {buffer = array, byteOffset = 0, byteLength} = array ?? {};
  const {bytes} = tensors[name];
  if (byteLength !== bytes) {
    const rule = `${name} must be a typed array or an ArrayBuffer of ${bytes} bytes`;
    throw new RangeError(`${rule}, got ${byteLength ?? typeof array}`);
  }
  return new Uint8Array(buffer, byteOffset, byteLength);
}
