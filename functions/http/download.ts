import type * as v from "valibot";
import { createSlots } from "#kit/slots.ts";
import type { TimedCore } from "../core.ts";
import type { RequestedExport } from "../domain/audit/audited-export.ts";
import type { Operator } from "../domain/operator/authenticate.ts";
import { Problem } from "../problems.ts";
import { route } from "./route.ts";
import type { Guard, Route, RouteDefinition } from "./route-definition.ts";
import { textStream } from "./text-stream.ts";

/** Concurrent downloads of one operator from one route of this core: twice as many as the page starts. */
const downloadsMax = 8;
const idleMs = 60_000;

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

/** The media type, the extension and the description of a kind of file. */
interface FileKind {
  type: string;
  extension: string;
  description: string;
}

/** JSON lines as text, as CSV is: the generated client returns text/* as a string, and would parse application/jsonl as one value. */
export const jsonLines = { type: "text/x-ndjson; charset=utf-8", extension: "jsonl" };

/** A file: the parts of its name, and its texts, which are read on demand. */
export interface Download {
  name: string;
  /** The filter of the request; its query by default. */
  asked?: Readonly<Record<string, unknown>>;
  /** Now by default. */
  at?: Date;
  texts: AsyncIterable<string>;
}

type Schema = v.GenericSchema | undefined;
type Described = "path" | "operationId" | "summary" | "params" | "query" | "problems";

/** The description of a route that streams a file; `open` audits the request, and returns the file. */
export type DownloadDefinition<
  File,
  Params extends Schema,
  Query extends Schema,
  Caller extends Operator = Operator,
> = Pick<RouteDefinition<Caller, Params, Query>, Described> & {
  open(
    input: Parameters<RouteDefinition<Caller, Params, Query>["handle"]>[0],
    audit: RequestedExport,
  ): Promise<File>;
};

/**
 * Creates a route that streams files to operators with backpressure. `open` runs once the operator has a slot. Throws 429
 * `too_many_exports` beyond eight concurrent downloads of one operator.
 */
export const downloadRoute = <
  Params extends Schema = undefined,
  Query extends Schema = undefined,
  Caller extends Operator = Operator,
>(
  { clock }: TimedCore,
  {
    file: { type, extension, description },
    headers,
    open,
    problems = [],
    ...described
  }: DownloadDefinition<Download, Params, Query, Caller> & {
    guard: Guard<Caller>;
    file: FileKind;
    headers?: Readonly<Record<string, string>>;
  },
): Route => {
  const slots = createSlots(downloadsMax);
  return route<Caller, Params, Query>({
    ...described,
    method: "GET",
    replies: { 200: { description, type: type.split(";")[0] ?? type } },
    problems: [...problems, "too_many_exports"],
    handle: async (input) => {
      const { caller, origin } = input;
      const query = (input.query ?? {}) as Readonly<Record<string, unknown>>;
      const release = slots(caller.userId);
      if (release === null)
        throw new Problem("too_many_exports", { retryAfterSeconds: idleMs / 1000 });
      const { name, asked, at, texts } = await open(input, { caller, origin, asked: query }).catch(
        (error: unknown) => {
          release();
          throw error;
        },
      );
      const fileName = downloadName(name, asked ?? query, at ?? new Date(clock.now()), extension);
      return {
        status: 200,
        stream: { type, content: textStream(withSlot(texts, release), { clock, idleMs }) },
        headers: { ...headers, "Content-Disposition": `attachment; filename="${fileName}"` },
      };
    },
  });
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
