import { parse as parseVersion } from "semver";
import * as v from "valibot";
import { ReleaseFailure } from "./release-failure.ts";
import { pathFault } from "./release-path.ts";
import { parseStrictJson } from "./strict-json.ts";

/** Returns true for a version as semver.org writes it: no leading `v`, no leading zeros, no spaces. */
const isSemVer = (text: string): boolean => {
  const parsed = parseVersion(text);
  return (
    parsed !== null && text === [parsed.version, parsed.build.join(".")].filter(Boolean).join("+")
  );
};

const Version = v.pipe(
  v.string("must be a string"),
  v.check(isSemVer, "must be a SemVer version, such as 1.2.3"),
);

const Path = v.pipe(
  v.string("must be a string"),
  v.rawCheck(({ dataset, addIssue }) => {
    const fault = dataset.typed ? pathFault(dataset.value) : undefined;
    if (fault !== undefined) addIssue({ message: fault });
  }),
);

const Label = v.pipe(
  v.string("must be a string"),
  v.regex(/^[A-Za-z0-9][A-Za-z0-9 ._+/-]{0,63}$/, "must be 1 to 64 letters, digits and . _ + / -"),
);

const repository =
  /^(?:[a-zA-Z0-9.-]+(?::\d{1,5})?\/)?[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:\/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*$/;

/** Splits `image:version@sha256:<64 hex>`; undefined unless the tag is SemVer without build metadata, which no tag can hold. */
export const splitImageRef = (
  ref: string,
): { repository: string; tag: string; digest: string } | undefined => {
  const found =
    /^(?<image>[^@]{1,255}):(?<tag>[^:@/+]{1,128})@sha256:(?<digest>[0-9a-f]{64})$/.exec(
      ref,
    )?.groups;
  const { image, tag, digest } = found ?? {};
  if (image === undefined || tag === undefined || digest === undefined) return undefined;
  return repository.test(image) && isSemVer(tag) ? { repository: image, tag, digest } : undefined;
};

const Ref = v.pipe(
  v.string("must be a string"),
  v.check(
    (ref) => splitImageRef(ref) !== undefined,
    "must be image:version@sha256:<64 lower-case hex>, with a SemVer tag",
  ),
);

const list = <Entry extends v.GenericSchema>(entry: Entry) =>
  v.pipe(v.array(entry, "must be a list"), v.maxLength(10_000, "has more than 10,000 entries"));

const Spec = v.strictObject({
  version: Version,
  artifacts: v.pipe(
    list(v.strictObject({ path: Path, kind: Label, platform: Label })),
    v.minLength(1, "must name an artifact"),
  ),
  sboms: list(
    v.strictObject({
      path: Path,
      format: Label,
      for: v.pipe(v.string("must be a string"), v.nonEmpty()),
    }),
  ),
  images: list(v.strictObject({ name: Label, ref: Ref })),
});

/** What a release consists of. Paths are relative to the folder of the spec. */
export type ReleaseSpec = v.InferOutput<typeof Spec>;

/** Parses a spec. Throws `ReleaseFailure` (65) with every fault, named by its place. */
export const parseReleaseSpec = (bytes: Uint8Array): ReleaseSpec => {
  const parsed = v.safeParse(Spec, parseStrictJson(bytes, "the spec"));
  const faults = parsed.success
    ? contradictionsIn(parsed.output)
    : parsed.issues.map(describeIssue);
  if (parsed.success && faults.length === 0) return parsed.output;
  throw new ReleaseFailure("specInvalid", "the spec is not valid", faults);
};

const describeIssue = (issue: v.BaseIssue<unknown>): string => {
  const place = (issue.path ?? [])
    .map(({ key }) => (typeof key === "number" ? `[${key}]` : `.${String(key)}`))
    .join("");
  const at = place === "" ? "the spec" : JSON.stringify(place.replace(/^\./, "")).slice(1, -1);
  if (issue.type === "strict_object" && issue.path !== undefined)
    return issue.expected === "never" ? `${at} is an unknown key` : `${at} is missing`;
  return issue.type === "strict_object" ? `${at} must be an object` : `${at} ${issue.message}`;
};

const contradictionsIn = ({ artifacts, sboms, images }: ReleaseSpec): string[] => {
  const paths = new Set(artifacts.map(({ path }) => path));
  const names = new Set(images.map(({ name }) => name));
  const covered = new Set(sboms.map((sbom) => sbom.for));
  const repeated = (list: string, keys: readonly string[]) =>
    keys
      .filter((key, index) => keys.indexOf(key) !== index)
      .map((key) => `${list} lists ${key} twice`);
  return [
    ...repeated(
      "artifacts",
      artifacts.map(({ path }) => path),
    ),
    ...repeated(
      "sboms",
      sboms.map((sbom) => `${sbom.path} for ${sbom.for}`),
    ),
    ...repeated(
      "images",
      images.map(({ name }) => name),
    ),
    ...[...names]
      .filter((name) => paths.has(name))
      .map((name) => `${name} is both an artifact and an image`),
    ...sboms
      .filter(({ path }) => paths.has(path))
      .map(({ path }) => `${path} is both an artifact and an SBOM`),
    ...[...covered]
      .filter((name) => !paths.has(name) && !names.has(name))
      .map(
        (name) =>
          `sboms has one for ${JSON.stringify(name)}, which is neither an artifact nor an image`,
      ),
    ...[...paths].filter((path) => !covered.has(path)).map((path) => `${path} has no SBOM`),
  ];
};
