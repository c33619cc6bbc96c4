import { join } from "node:path";
import type { Metafile } from "esbuild";
import { build } from "vite";
import type { ProgramName } from "../bundle/bundle-programs.ts";
import { root } from "../repository-files.ts";
import { packagesOf, type ShippedPackage, shippedFiles } from "./shipped-packages.ts";

/** Returns the packages with code in the bundle of a program; for svc-web, also in its pages. `metafile` is what `bundleProgram` returned. */
export const programPackages = async (
  name: ProgramName,
  metafile: Metafile,
): Promise<ShippedPackage[]> =>
  packagesOf(root, [...shippedFiles(metafile), ...(name === "svc-web" ? await pageModules() : [])]);

/** Returns the package of the Node that an executable or an image for `platform` contains; by default that of this machine. */
export const nodePackages = (
  platform = `${process.platform}-${process.arch}`,
): Promise<ShippedPackage[]> => packagesOf(root, [`node_modules/node-${platform}/package.json`]);

/** Returns the modules with code in the operator UI, by a build that writes nothing. */
const pageModules = async (): Promise<string[]> => {
  const built = await build({
    configFile: join(root, "vite.config.ts"),
    logLevel: "error",
    build: { write: false },
  });
  const outputs = [built].flat().flatMap((result) => ("output" in result ? result.output : []));
  return outputs.flatMap((output) =>
    output.type !== "chunk"
      ? []
      : Object.entries(output.modules)
          .filter(([, { renderedLength }]) => renderedLength > 0)
          .flatMap(([id]) => moduleFile(id)),
  );
};

/** Modules without a file are code of vite and rolldown; their names start with a zero byte. */
const moduleFile = (id: string): string[] => {
  const helper = /^\0(vite|rolldown)\//.exec(id)?.[1];
  if (helper !== undefined) return [`node_modules/${helper}/package.json`];
  return id.startsWith(root) ? [id.slice(root.length).split("?")[0] ?? ""] : [];
};
