import { type FileMeasure, type MeasuredFiles, measureFile } from "./measure-file.ts";
import { compareText } from "./release-path.ts";
import type { ReleaseSpec } from "./release-spec.ts";

/** The format identifier of a manifest. */
export const manifestFormat = "svc.release-manifest.v1";

/** What a release consists of, with the size and digest of each file. Lists are sorted. */
export interface ReleaseManifest {
  format: typeof manifestFormat;
  version: string;
  artifacts: ReadonlyArray<{ path: string; kind: string; platform: string } & FileMeasure>;
  sboms: ReadonlyArray<{ path: string; format: string; for: string } & FileMeasure>;
  images: ReadonlyArray<{ name: string; ref: string }>;
}

/** Measures every file of `spec` below `root`. Throws `ReleaseFailure` for the first that cannot be vouched for. */
export const createManifest = async (
  root: string,
  spec: ReleaseSpec,
  files?: MeasuredFiles,
): Promise<ReleaseManifest> => {
  const measured = async <Entry extends { path: string }>(entries: readonly Entry[]) => {
    const results: (Entry & FileMeasure)[] = [];
    for (const entry of entries)
      results.push({ ...entry, ...(await measureFile(root, entry.path, files)) });
    return results;
  };
  const by =
    <Entry>(...keys: ((entry: Entry) => string)[]) =>
    (a: Entry, b: Entry) =>
      keys.map((key) => compareText(key(a), key(b))).find((order) => order !== 0) ?? 0;
  const artifacts = spec.artifacts.map(({ path, kind, platform }) => ({ path, kind, platform }));
  const sboms = spec.sboms.map((sbom) => ({ path: sbom.path, format: sbom.format, for: sbom.for }));
  const images = spec.images.map(({ name, ref }) => ({ name, ref }));
  return {
    format: manifestFormat,
    version: spec.version,
    artifacts: await measured(artifacts.sort(by(({ path }) => path))),
    sboms: await measured(
      sboms.sort(
        by(
          ({ path }) => path,
          (sbom) => sbom.for,
        ),
      ),
    ),
    images: images.sort(by(({ name }) => name)),
  };
};

/** Prints a manifest: the same bytes for the same content. */
export const printManifest = (manifest: ReleaseManifest): string =>
  `${JSON.stringify(manifest, null, 2)}\n`;
