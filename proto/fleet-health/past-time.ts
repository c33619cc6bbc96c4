import { parseTimestamp } from "../management/text.ts";

const minute = /^(\d{4}-\d\d-\d\dT\d\d:\d\d)Z$/;

/** Parses a time in UTC, to the minute or finer, such as `2026-11-23T02:41Z`; undefined for other text. */
export const parsePastTime = (text: string): number | undefined =>
  parseTimestamp(text.replace(minute, "$1:00Z"));
