import type { Clock } from "#kit/clock.ts";
import { createSlots } from "#kit/slots.ts";
import { Problem } from "../problems.ts";
import type { Reply } from "./route.ts";
import { textStream } from "./text-stream.ts";

/** Concurrent downloads of one operator from one route of this core: twice as many as the page starts. */
const downloadsMax = 8;
/** A reader is considered disconnected when it reads nothing for this time. */
const idleMs = 60_000;

/** A streamed file: its media type, its name, and its texts, which are read on demand. */
interface Download {
  type: string;
  fileName: string;
  texts: AsyncIterable<string>;
}

const filterCharactersMax = 120;

/**
 * Returns a file name with the filter of the request, and the time in UTC: `stale_platform-linux-amd64_20261120T164503Z.csv`. Replaces
 * characters that a file system could misread by `-`.
 */
export const downloadName = (
  name: string,
  asked: Readonly<Record<string, unknown>>,
  at: Date,
  extension: string,
): string => {
  const plain = (text: string) =>
    text.replaceAll(/[^A-Za-z0-9.]+/g, "-").replaceAll(/^[-.]+|(?<![-.])[-.]+$/g, "");
  const filters = Object.entries(asked)
    .filter(([, value]) => value !== undefined)
    .map(([parameter, value]) => `_${plain(`${parameter} ${[value].flat().join(" ")}`)}`)
    .join("");
  const shortened =
    filters.length > filterCharactersMax ? `${filters.slice(0, filterCharactersMax)}...` : filters;
  const time = at.toISOString().replaceAll(/[-:]|\.\d+/g, "");
  return `${plain(name)}${shortened}_${time}.${extension}`;
};

/**
 * Creates the responder of a route that streams files with backpressure. `open` runs once the operator has a slot. Throws 429
 * `too_many_exports` beyond eight concurrent downloads of one operator.
 */
export const createDownloads = ({ clock }: { clock: Pick<Clock, "sleep"> }) => {
  const slots = createSlots(downloadsMax);
  return async (userId: string, open: () => Promise<Download>): Promise<Reply> => {
    const release = slots(userId);
    if (release === null)
      throw new Problem("too_many_exports", { retryAfterSeconds: idleMs / 1000 });
    const { type, fileName, texts } = await open().catch((error: unknown) => {
      release();
      throw error;
    });
    return {
      status: 200,
      stream: { type, content: textStream(withSlot(texts, release), { clock, idleMs }) },
      headers: { "Content-Disposition": `attachment; filename="${fileName}"` },
    };
  };
};

/** Yields the texts of a download, and releases its slot at their end. */
const withSlot = async function* (
  texts: AsyncIterable<string>,
  release: () => void,
): AsyncGenerator<string, void, void> {
  try {
    yield* texts;
  } finally {
    release();
  }
};
