import { readFileSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import react from "@vitejs/plugin-react";
import { defineConfig, type Plugin } from "vite";

/** The edge of the one-machine stack serves these files to browsers that accept them; CloudFront compresses by itself. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    closeBundle() {
      const dist = fileURLToPath(new URL("dist", import.meta.url));
      for (const name of readdirSync(dist, { recursive: true, encoding: "utf8" })) {
        const path = join(dist, name);
        if (!/\.(js|css|html|svg)$/.test(name) || statSync(path).size < 1024) continue;
        const text = readFileSync(path);
        writeFileSync(`${path}.gz`, gzipSync(text, { level: 9 }));
        writeFileSync(`${path}.br`, brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 9 } }));
      }
    },
  };
}

/** Icons stand beside text or on a labelled button; without this a screen reader says "thunderbolt Start". */
function silentIcons(): Plugin {
  return {
    name: "silent-icons",
    transform(code, id) {
      if (!/@ant-design\/icons\/.*AntdIcon(Light)?\.js/.test(id)) return null;
      const silent = code.replace(/role: "img",\s*"aria-label": icon\.name/, '"aria-hidden": true');
      if (silent === code) this.error("AntdIcon has changed: its label is not where it was");
      return silent;
    },
  };
}

export default defineConfig({
  plugins: [react(), silentIcons(), compressed()],
  resolve: { alias: { "@": fileURLToPath(new URL("src", import.meta.url)), "artiway-client": fileURLToPath(new URL("../clients/typescript/src/index.ts", import.meta.url)) } },
  build: {
    target: "es2022",
    sourcemap: false,
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1200,
    modulePreload: { polyfill: false },
  },
  server: { proxy: Object.fromEntries(["/api", "/ws", "/outputs"].map((path) => [path, { target: "http://127.0.0.1:8700", ws: path === "/ws" }])) },
});
