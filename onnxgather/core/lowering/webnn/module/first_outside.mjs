// Returns the sentence about the first index out of range; "" if there is none.
function firstOutside(indices, coordinates = [], position = 0) {
  const sizes = SIZES;
  const strides = STRIDES;
  const axis = coordinates.length;
  if (axis === sizes.length) {
    const size = AXES[coordinates[axis - 1] % COUNT];
    const index = indices[position];
    if (index >= LOWEST && index < size) return "";
    return `IndicesTensor[${coordinates}] must be in [BOUND, ${size}), got ${index}`;
  }
  for (let k = 0; k < sizes[axis]; k += 1) {
    const offset = position + k * strides[axis];
    const sentence = firstOutside(indices, [...coordinates, k], offset);
    if (sentence) return sentence;
  }
  return "";
}
