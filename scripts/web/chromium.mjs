// Unpacks the browser of npm's package @sparticuz/chromium: `node chromium.mjs ARCHIVE FOLDER`. The package has code
// of its own for this, which asks for a newer Node than the browser does.
//
// FOLDER gets the program `chromium` with the libraries that it loads from its own folder, and in `lib` those that a
// Linux distribution may lack.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { brotliDecompressSync } from "node:zlib";

const VERSION = "153.0.0";
const SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA==";

const [archive, folder] = process.argv.slice(2);
const digest = createHash("sha512").update(readFileSync(archive)).digest("base64");
if (digest !== SHA512) {
  console.error(`${archive} must be @sparticuz/chromium ${VERSION}, of SHA-512 ${SHA512}, got ${digest}`);
  process.exit(1);
}

const unpack = (input, where, ...options) => {
  mkdirSync(where, { recursive: true });
  execFileSync("tar", ["-x", "-C", where, ...options, "-f", "-"], { input });
};
const packed = (name) => brotliDecompressSync(readFileSync(join(folder, "package", "bin", name)));

execFileSync("tar", ["-xz", "-C", folder, "-f", archive, "package/bin"]);
writeFileSync(join(folder, "chromium"), packed("chromium.br"), { mode: 0o755 });
unpack(packed("swiftshader.tar.br"), folder);
unpack(packed("al2023.tar.br"), folder); // the folder `lib`
rmSync(join(folder, "package"), { recursive: true });
