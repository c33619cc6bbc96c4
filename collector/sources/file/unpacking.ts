/* Replaces compressed files by their contents, a piece a pass, so that discovery waits for none of them. */
import { dirname } from "node:path";
import { type CompressedFile, contentLimits } from "./compressed-file.ts";
import type { Candidate } from "./file-opener.ts";
import type { Ledgers } from "./ledger.ts";
import { fileKey, printOf } from "./position.ts";
import type { SourceFiles } from "./source-files.ts";

/** Returns how far a compressed file is measured, unless it has changed since. */
const unpackingOf = (
  { file, unpacking }: Candidate,
  files: Pick<SourceFiles, "packed">,
): NonNullable<Candidate["unpacking"]> => {
  const { size } = file.stat;
  if (unpacking?.size === size) return unpacking;
  return { packed: files.packed(file), size, damagedPasses: 0 };
};

/** So many passes, about an hour, a damaged compressed file is waited for without a change. */
const damagedPassesMax = 3_600;

/** Creates what replaces a compressed file by its content. `isOlder` reports whether a file is older than the following of its name. */
export const createUnpacking = (
  { files, ledgers }: { files: Pick<SourceFiles, "packed">; ledgers: Ledgers },
  {
    held,
    incomplete,
    missing,
  }: { held: Candidate[]; incomplete: Set<string>; missing: { path: string; bytes: number }[] },
  isOlder: (candidate: Candidate) => boolean,
) => {
  /** The bytes that this pass has measured. */
  let measured = 0;

  /** Whether the ledger has a compressed file, as its beginning shows. It takes an older one. */
  const isRead = async (candidate: Candidate, packed: CompressedFile): Promise<boolean> => {
    const outline = await packed.outline();
    if (outline === undefined) return false;
    const ledger = ledgers.of(candidate.base);
    const key = fileKey(candidate.file.stat);
    if (ledger.hasPacked(outline, key)) return true;
    if (!isOlder(candidate)) return false;
    ledger.add({ size: outline.size, head: printOf(outline.start), key });
    return true;
  };

  /** Returns the content of a compressed file. Closes one that is read, and holds one that is not measured yet or not complete. */
  return async (candidate: Candidate): Promise<Candidate | "held" | undefined> => {
    const { file } = candidate;
    const unpacking = unpackingOf(candidate, files);
    const { packed, damagedPasses } = unpacking;
    if (await isRead(candidate, packed)) {
      await file.close();
      return undefined;
    }
    const found =
      damagedPasses > 0
        ? "damaged"
        : measured >= contentLimits.measuredBytes
          ? "measuring"
          : await packed.content();
    if (typeof found === "object") {
      measured += found.stat.size;
      return { ...candidate, file: found, isContent: true };
    }
    if (found === "measuring") measured = contentLimits.measuredBytes;
    if (found === "damaged" && file.stat.links === 0) {
      missing.push({ path: candidate.base, bytes: 0 });
      await file.close();
      return undefined;
    }
    const passes = found === "damaged" ? damagedPasses + 1 : 0;
    held.push({ ...candidate, unpacking: { ...unpacking, damagedPasses: passes } });
    if (passes < damagedPassesMax) incomplete.add(dirname(file.realPath));
    return "held";
  };
};
