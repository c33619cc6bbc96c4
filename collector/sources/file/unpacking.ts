/* Replaces compressed files by their contents, a piece a pass, so that discovery waits for none of them. */
import { dirname } from "node:path";
import { type CompressedFile, contentLimits } from "./compressed-file.ts";
import type { Candidate, PackedCandidate, Unpacking } from "./file-opener.ts";
import type { Ledgers } from "./ledger.ts";
import { fileKey, printOf } from "./position.ts";
import type { SourceFiles } from "./source-files.ts";

/** So many passes, about an hour, a damaged compressed file is waited for without a change. */
const damagedPassesMax = 3_600;

/** Creates what replaces a compressed file by its content. `isOlder` reports whether a file is older than the following of its name. */
export const createUnpacking = (
  { files, ledgers }: { files: Pick<SourceFiles, "packed">; ledgers: Ledgers },
  {
    undecided,
    incomplete,
    missing,
  }: {
    undecided: Candidate[];
    incomplete: Set<string>;
    missing: { path: string; bytes: number }[];
  },
  isOlder: (candidate: Candidate) => boolean,
) => {
  /** The bytes that this pass has measured. */
  let measured = 0;

  /** Reports whether the ledger has a compressed file, as its beginning shows. It takes an older one. */
  const isRead = async (candidate: Candidate, compressed: CompressedFile): Promise<boolean> => {
    const outline = await compressed.outline();
    if (outline === undefined) return false;
    const ledger = ledgers.of(candidate.base);
    const key = fileKey(candidate.file.stat);
    if (ledger.hasPacked(outline, key)) return true;
    if (!isOlder(candidate)) return false;
    ledger.add({ size: outline.size, head: printOf(outline.start), key });
    return true;
  };

  /** Returns the content of a compressed file. Closes one that is read; one that is not measured yet or not complete stays undecided. */
  return async (candidate: PackedCandidate): Promise<Candidate | "undecided" | undefined> => {
    const { file } = candidate;
    const unpacking = unpackingOf(candidate, files);
    const { compressed, damagedPasses } = unpacking;
    if (await isRead(candidate, compressed)) {
      await file.close();
      return undefined;
    }
    const found =
      damagedPasses > 0
        ? "damaged"
        : measured >= contentLimits.measuredBytes
          ? "measuring"
          : await compressed.content();
    if (typeof found === "object") {
      measured += found.stat.size;
      return { ...candidate, file: found, form: "content" };
    }
    if (found === "measuring") measured = contentLimits.measuredBytes;
    if (found === "damaged" && file.stat.links === 0) {
      missing.push({ path: candidate.base, bytes: 0 });
      await file.close();
      return undefined;
    }
    const passes = found === "damaged" ? damagedPasses + 1 : 0;
    undecided.push({ ...candidate, unpacking: { ...unpacking, damagedPasses: passes } });
    if (passes < damagedPassesMax) incomplete.add(dirname(file.realPath));
    return "undecided";
  };
};

/** Returns how far a compressed file is measured, unless it has changed since. */
const unpackingOf = (
  { file, unpacking }: PackedCandidate,
  files: Pick<SourceFiles, "packed">,
): Unpacking => {
  const { size } = file.stat;
  if (unpacking?.size === size) return unpacking;
  return { compressed: files.packed(file), size, damagedPasses: 0 };
};
