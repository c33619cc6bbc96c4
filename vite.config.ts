import { build as bundle } from "esbuild";
import { defineConfig, type Plugin } from "vite";
import solid from "vite-plugin-solid";

const themeEntry = "browser/apply-theme.ts";

/**
 * Applies the stored theme before the first paint. Modules wait for the document, so this is a classic script; the content security
 * policy allows no inline script, so it is a file.
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
    // The manifest lists the file under its original name, for pages that the server renders.
    this.emitFile({ type: "asset", name: "theme.js", originalFileName: themeEntry, source });
  },
  transformIndexHtml: {
    order: "post",
    handler(_html, { bundle: files = {} }) {
      const script = Object.values(files).find(
        (file) => file.type === "asset" && file.originalFileNames.includes(themeEntry),
      );
      return script
        ? [{ tag: "script", attrs: { src: `/${script.fileName}` }, injectTo: "head-prepend" }]
        : [];
    },
  },
});

const chatModule = /\/(ui\/app|proto)\/chat\//;

/** Gives chat its own copy of valibot, which is one module: what only chat uses of it would be in the script that every page loads. */
const valibotOfChat = (): Plugin => ({
  name: "valibot-of-chat",
  enforce: "pre",
  apply: "build",
  async resolveId(source, importer) {
    if (source !== "valibot" || importer === undefined || !chatModule.test(importer)) return null;
    const resolved = await this.resolve(source, importer, { skipSelf: true });
    return resolved && `${resolved.id}?chat`;
  },
});

/**
 * What every page loads, and what pages that lead into the fleet share, as one file each: it compresses better than a file for each set of
 * pages that use the same modules.
 */
const sharedScripts = [
  { name: "index", tags: ["$initial" as const], test: /^(?!.*\/login\.css)/, priority: 1 },
  {
    name: "filter",
    test: /fleet-health\/(columns|facets|filter|query-language|report)|fleet\/view\/view-state/,
  },
];

/**
 * Builds the operator UI into `dist/ui`: hashed assets and `manifest.json` (keys relative to ui/app), without inline scripts, styles or
 * data URIs. `login` is the stylesheet of the sign-in page, which the server renders.
 */
export default defineConfig({
  root: "ui/app",
  publicDir: "public",
  plugins: [solid(), themeBeforePaint(), valibotOfChat()],
  css: { transformer: "lightningcss" },
  build: {
    outDir: "../../dist/ui",
    emptyOutDir: true,
    // The native popover and light-dark() need these.
    target: ["chrome125", "firefox128", "safari18"],
    manifest: "manifest.json",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0,
    reportCompressedSize: false,
    // Timings depend on the machine.
    rolldownOptions: {
      checks: { pluginTimings: false },
      output: { codeSplitting: { groups: sharedScripts } },
      input: { index: "ui/app/index.html", login: "ui/app/design/login.css" },
    },
  },
  logLevel: "warn",
});
