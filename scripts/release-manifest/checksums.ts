import { compareText, pathFault } from "./release-path.ts";

/** The file that lists the digest of every other file of a release, as `sha256sum` writes and checks it. */
export const checksumsFile = "SHA256SUMS";

/** Prints digests by path in the format of `sha256sum`, sorted. */
export const printChecksums = (digests: ReadonlyMap<string, string>): string =>
  [...digests]
    .sort(([a], [b]) => compareText(a, b))
    .map(([path, sha256]) => `${sha256}  ${path}\n`)
    .join("");

/** Parses what `printChecksums` prints. Returns undefined for anything else: another order, a repeated or unsafe path, a remark. */
export const parseChecksums = (text: string): Map<string, string> | undefined => {
  const digests = new Map<string, string>();
  for (const line of text.split("\n").slice(0, -1)) {
    const { sha256, path } = /^(?<sha256>[0-9a-f]{64}) {2}(?<path>.+)$/.exec(line)?.groups ?? {};
    if (sha256 === undefined || path === undefined || pathFault(path) !== undefined)
      return undefined;
    digests.set(path, sha256);
  }
  return printChecksums(digests) === text ? digests : undefined;
};
