import type { Metafile } from "esbuild";
import { expect, it } from "vitest";
import { bundleProgram } from "#scripts/bundle/bundle-programs.ts";
import { newFolder } from "#tests/support/new-folder.ts";

/** Returns the files of a bundle that are loaded with `name`, without those that a command loads when it runs. */
const loadedWith = (outputs: Metafile["outputs"], name: string, loaded = new Set<string>()) => {
  if (loaded.has(name)) return loaded;
  loaded.add(name);
  for (const { path, kind } of outputs[name]?.imports ?? [])
    if (kind === "import-statement" && path in outputs) loadedWith(outputs, path, loaded);
  return loaded;
};

it("svc-admin --help loads commander alone: the client and the validators wait for a command", async () => {
  const folder = newFolder();
  const { outputs } = await bundleProgram("admin/main.ts", folder);
  const main =
    Object.keys(outputs).find((name) => outputs[name]?.entryPoint === "admin/main.ts") ?? "";
  // The compile cache must be on before anything else is loaded, so main imports the program when it runs.
  const started = (outputs[main]?.imports ?? []).filter(({ kind }) => kind === "dynamic-import");
  expect(started).toHaveLength(2);
  const loaded = [main, ...started.map(({ path }) => path)].flatMap((name) => [
    ...loadedWith(outputs, name),
  ]);
  const sources = [...new Set(loaded)].flatMap((name) => Object.keys(outputs[name]?.inputs ?? {}));
  const packages = sources.flatMap((source) => /^node_modules\/([^/]+)/.exec(source)?.[1] ?? []);
  expect([...new Set(packages)]).toEqual(["commander"]);
  expect(sources.filter((source) => source.startsWith("client/"))).toEqual(["client/problem.ts"]);
});
