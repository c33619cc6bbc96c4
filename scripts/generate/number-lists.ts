import { readFileSync } from "node:fs";
import {
  everyNumber,
  type ReportedNumber,
  reportedNumbers,
} from "#proto/management/reported-numbers.ts";
import type { Artifact } from "./artifacts.ts";

const groups: Readonly<Record<string, readonly ReportedNumber[]>> = {
  number: everyNumber,
  queue: Object.values(reportedNumbers.queue),
  process: Object.values(reportedNumbers.process),
};

/** Renders the placeholders of a list, such as `{name}`, for a number. */
const words: Readonly<Record<string, (number: ReportedNumber) => string>> = {
  column: ({ column }) => column,
  /** Without its unit. */
  name: ({ column }) => column.replace(/_[a-z]+$/, ""),
  /** As the chat reads it, of the report `h` and the status `f` of a host. */
  read: ({ column, figure }) =>
    figure ? `nullif(f.${figure}, -1)::bigint AS ${column}` : `h.${column}`,
};

/** Renders the definitions with lists of numbers of the heartbeat: what is between `each GROUP: ITEM` and `end`, both in comments. */
export const renderNumberLists = (): Artifact[] =>
  ["drizzle/sql/chat-views.sql", "drizzle/sql/fleet-figures.sql"].map((path) => ({
    path,
    text: readFileSync(path, "utf8").replace(
      /(\/\* each (\w+): (.+?) \*\/)(\s+).*?(?=\/\* end \*\/)/gs,
      (_, head: string, group: string, item: string, space: string) =>
        [
          head,
          ...(groups[group] ?? []).map((number) =>
            item.replace(/\{(\w+)\}/g, (_, word) => words[word]?.(number) ?? ""),
          ),
        ]
          .map((part) => part + space)
          .join(""),
    ),
  }));
