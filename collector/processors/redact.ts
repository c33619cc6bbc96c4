import type { RE2JS } from "re2js";
import { jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import type { ProcessorConfig } from "#proto/collector-config/parse.ts";
import { compilePattern } from "../sources/file/multiline.ts";
import { replaceSecrets } from "./secrets.ts";

/** Returns a text without what is redacted; the same text if it has nothing of that. */
export type Redact = (text: string) => string;

/** Finding a match may cost as many steps as reading the text: so many take the engine two or three seconds. */
const stepsMax = 16_000_000;
/** So much longer may a text become. */
const growthMax = 4 * 1024;

/** Creates what a rule redacts: secrets by presets, as `[redacted:card]`, and matches of its patterns, as `[redacted:NAME]`. */
export const createRedact = async (
  name: string,
  { presets, patterns }: NonNullable<ProcessorConfig["redact"]>,
): Promise<Redact> => {
  const compiled = await Promise.all(patterns.map(compilePattern));
  const replace = (text: string): string => {
    let rest = text;
    for (const preset of presets) rest = replaceSecrets(rest, preset, markOf(preset));
    for (const pattern of compiled) rest = replaceMatches(rest, pattern, markOf(name));
    return rest.length > text.length + growthMax ? markOf(name) : rest;
  };
  return (text) => {
    const redacted = replace(text);
    if (redacted === text || (compiled.length === 0 && !valueOrEscape.test(redacted)))
      return redacted;
    return keepJson(text, redacted);
  };
};

/** A mark where a value of JSON may stand, or behind a backslash. Others of presets are within strings, whose quotes no preset takes. */
const valueOrEscape = /(?:^|[[:,\s-])\[redacted:\w+\](?=[\]},\s]|$)|\\\[redacted:/;

/** A plain word: it breaks no string of JSON. */
const markOf = (name: string): string => `[redacted:${name}]`;

/** Returns a text in which each match is replaced; the replacement alone if there are too many to find. */
const replaceMatches = (text: string, pattern: RE2JS, replacement: string): string => {
  if (!pattern.test(text)) return text;
  const matcher = pattern.matcher(text);
  let replaced = "";
  let copied = 0;
  for (let left = stepsMax / Math.max(1, text.length); matcher.find(); left--) {
    if (left < 1) return replacement;
    const start = matcher.start();
    const end = matcher.end();
    if (end === start) continue;
    replaced += text.slice(copied, start) + replacement;
    copied = end;
  }
  return replaced + text.slice(copied);
};

/** A string of JSON, maybe without its end, or a mark outside of one. */
const stringOrMark = /"(?:[^"\\]|\\.)*"?|\[redacted:[\w-]+\]/g;

/** Returns what was redacted of a text: JSON if that was JSON. A mark in place of a number becomes a string; so does what is no JSON then. */
const keepJson = (text: string, redacted: string): string => {
  if (isJson(redacted) || !isJson(text)) return redacted;
  const quoted = redacted.replace(stringOrMark, (part) => (part[0] === "[" ? `"${part}"` : part));
  return isJson(quoted) ? quoted : JSON.stringify(redacted);
};

/** Whether a text is an object or a list of JSON, within the limits of those that a collector reads. */
const isJson = (text: string): boolean => {
  if (!/^\s*[[{]/.test(text)) return false;
  try {
    parseForeignJson(text, jsonLimits.otlp);
    return true;
  } catch {
    return false;
  }
};
