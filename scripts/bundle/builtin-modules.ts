import type { Plugin } from "esbuild";

/**
 * Makes a bundle take what it uses of Node's modules from `process.getBuiltinModule`. For an `import` of one, Node reads all exports of
 * that module, and some of them load others: with `node:http` comes undici, for its `WebSocket`. That is a fifth of a collector's start.
 */
export const builtinModules: Plugin = {
  name: "builtin-modules",
  setup: ({ onResolve, onLoad }) => {
    onResolve({ filter: /^node:/ }, ({ kind, path }) =>
      kind === "import-statement" ? { path, namespace: "builtin" } : { path, external: true },
    );
    // Each export is a call that esbuild drops unless it is used.
    onLoad({ filter: /.*/, namespace: "builtin" }, ({ path }) => {
      const names = Object.keys(process.getBuiltinModule(path) ?? {}).filter((name) =>
        /^\w+$/.test(name),
      );
      const exports = names.map(
        (name) => `export const ${name} = /* @__PURE__ */ $get("${name}");`,
      );
      return {
        contents: `const $builtin = /* @__PURE__ */ process.getBuiltinModule("${path}");
const $get = /* @__NO_SIDE_EFFECTS__ */ (name) => $builtin[name];
export default $builtin;
${exports.join("\n")}`,
      };
    });
  },
};
