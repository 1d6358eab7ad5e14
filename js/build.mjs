// Copies the modules, the library and the licence into this folder, for `npm pack`: node build.mjs
import { copyFile, readdir } from "node:fs/promises";

const modules = await readdir(new URL("../regard/runtime/js/", import.meta.url));
const files = { ...Object.fromEntries(modules.map((name) => [name, `../regard/runtime/js/${name}`])), "regard.wasm": "../regard/runtime/lib/wasm/regard.wasm", LICENSE: "../LICENSE" };
for (const [name, from] of Object.entries(files)) {
  await copyFile(new URL(from, import.meta.url), new URL(name, import.meta.url)).catch((problem) => {
    console.error(`${problem.message}; build the library first: python tools/build_library.py wasm`);
    process.exit(1);
  });
}
