import { build as bundle } from "esbuild";
import { defineConfig, type Plugin } from "vite";
import solid from "vite-plugin-solid";

const themeEntry = "browser/apply-theme.ts";

/**
 * Puts the stored theme on the page before its first paint. Modules wait for the document, so this is a classic script; it is a file
 * of its own, because the content security policy knows no inline script.
 */
const themeBeforePaint = (): Plugin => ({
  name: "theme-before-paint",
  apply: "build",
  async buildStart() {
    const { outputFiles } = await bundle({
      entryPoints: [`ui/app/${themeEntry}`],
      bundle: true,
      format: "iife",
      minify: true,
      write: false,
    });
    const source = outputFiles[0]?.text ?? "";
    // The original name is the file's key in the manifest, for pages that the server writes.
    this.emitFile({ type: "asset", name: "theme.js", originalFileName: themeEntry, source });
  },
  transformIndexHtml: {
    order: "post",
    handler(_html, { bundle: files = {} }) {
      const script = Object.values(files).find(
        (file) => file.type === "asset" && file.originalFileNames.includes(themeEntry),
      );
      return script ? [{ tag: "script", attrs: { src: `/${script.fileName}` }, injectTo: "head-prepend" }] : [];
    },
  },
});

/**
 * The operator UI in `dist/ui`: hashed assets, `manifest.json` (keys relative to ui/app), no inline script, style or data URI.
 * `login` is the stylesheet of the page that the server writes itself.
 */
export default defineConfig({
  root: "ui/app",
  publicDir: "public",
  plugins: [solid(), themeBeforePaint()],
  css: { transformer: "lightningcss" },
  build: {
    outDir: "../../dist/ui",
    emptyOutDir: true,
    // What the native popover and light-dark() need.
    target: ["chrome125", "firefox128", "safari18"],
    manifest: "manifest.json",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // A slow machine is no fault of a plugin.
    rolldownOptions: {
      checks: { pluginTimings: false },
      input: { index: "ui/app/index.html", login: "ui/app/design/login.css" },
    },
  },
  logLevel: "warn",
});
