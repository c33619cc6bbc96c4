import type { Metafile } from "esbuild";
import { expect, it } from "vitest";
import { bundleProgram } from "#scripts/bundle/bundle-programs.ts";
import { newFolder } from "#tests/support/new-folder.ts";

/** The bytes of the bundle that `run` may load: a few hundredths more than it did when this was written. */
const runBytesMax = 785_000;

const addLoaded = (outputs: Metafile["outputs"], name: string, loaded: Set<string>) => {
  if (loaded.has(name)) return;
  loaded.add(name);
  for (const { path, kind } of outputs[name]?.imports ?? [])
    if (kind === "import-statement" && path in outputs) addLoaded(outputs, path, loaded);
};

it("run loads neither the parts of other commands nor a package that it does not need", async () => {
  const folder = newFolder();
  const { outputs } = await bundleProgram("collector/main.ts", folder);
  const loaded = new Set<string>();
  const started = /^collector\/(main|env|commands\/command-line|commands\/run)\.ts$/;
  for (const [name, { entryPoint = "" }] of Object.entries(outputs))
    if (started.test(entryPoint)) addLoaded(outputs, name, loaded);
  const sources = [...loaded].flatMap((name) => Object.keys(outputs[name]?.inputs ?? {}));
  const packages = sources.flatMap(
    (source) => /^node_modules\/((?:@[^/]+\/)?[^/]+)/.exec(source)?.[1] ?? [],
  );
  expect([...new Set(packages)].toSorted()).toEqual([
    "@bufbuild/protobuf",
    "canonicalize",
    "valibot",
    "yaml",
  ]);
  // Descriptors of protobuf messages.
  expect(sources.filter((source) => source.endsWith("_pb.js"))).toEqual([]);
  expect(
    sources.filter((source) =>
      /commands\/(enroll|renew|status|diag|dead-letters|validate-config)\.ts/.test(source),
    ),
  ).toEqual([]);
  // An import of these reads all exports of Node's module, and of node:http that loads undici.
  expect(
    [...loaded]
      .flatMap((name) => outputs[name]?.imports.filter(({ kind }) => kind === "import-statement"))
      .filter((entry) => entry?.external),
  ).toEqual([]);
  expect([...loaded].reduce((sum, name) => sum + (outputs[name]?.bytes ?? 0), 0)).toBeLessThan(
    runBytesMax,
  );
});
