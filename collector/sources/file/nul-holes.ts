/* Looks behind holes of NULs that no chunk holds. */
import { headOf, markAt, type Position } from "./position.ts";
import type { ReadUntil } from "./records.ts";
import type { LogFile } from "./source-files.ts";
import type { Tail } from "./tail.ts";

/** So many NULs are read at once: others have their turn meanwhile. */
const nulBytesMax = 64 * 1024 * 1024;

/**
 * Returns the position behind NULs that no chunk holds, once text follows them: a writer may have reserved them. "more" if it has to look on.
 */
export const findBehindNuls = async (
  tail: Tail,
  buffer: Buffer,
  until: ReadUntil,
): Promise<Position | "more" | "nothing"> => {
  const { file, position, charset } = tail;
  const { offset } = position;
  const { at, before } = await endOfNuls(file, Math.max(offset, tail.nulsUntil), buffer);
  tail.nulsUntil = before === "more" ? at : 0;
  if (before === "more") return before;
  const end = at - (at % (charset?.unit.bytes ?? 1));
  if (end === offset || (before === "end" && until !== "file")) return "nothing";
  const head = await headOf(file, end);
  return { ...position, offset: end, head, mark: await markAt(file, end) };
};

/** Returns where the NULs end that begin at an offset, or up to where they were read, and what is there. */
const endOfNuls = async (
  file: LogFile,
  start: number,
  buffer: Buffer,
): Promise<{ at: number; before: "text" | "end" | "more" }> => {
  const nuls = Buffer.alloc(buffer.length);
  for (let at = start; at - start < nulBytesMax; at += nuls.length) {
    const chunk = await file.read(buffer, at);
    const isText = !chunk.equals(nuls.subarray(0, chunk.length));
    if (isText) return { at: at + chunk.findIndex((byte) => byte !== 0), before: "text" };
    if (chunk.length < nuls.length) return { at: at + chunk.length, before: "end" };
  }
  return { at: start + nulBytesMax, before: "more" };
};
