/** A row of a query, by column. */
export type Row = Readonly<Record<string, unknown>>;

/** Returns a value of a row for a person. Names were written by others: without line breaks and control characters, and not too long. */
export const shown = (value: unknown, lengthMax = 120): string => {
  if (value === null || value === undefined || value === "") return "none";
  const text = String(Array.isArray(value) ? value.join(", ") : value);
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what it replaces
  const line = text.replace(/[\u0000-\u001f\u007f-\u009f\u2028\u2029]+/g, " ").trim();
  return line.length > lengthMax ? `${line.slice(0, lengthMax)}…` : line;
};

/** Returns a number of a row; a bigint arrives as a text. */
export const numberIn = (value: unknown): number => Number(value ?? 0) || 0;

/** Returns `3 hosts` or `1 host`. */
export const counted = (value: unknown, noun: string): string => {
  const count = numberIn(value);
  return `${count.toLocaleString("en-US")} ${count === 1 ? noun : `${noun}s`}`;
};

/** Units with the length from which they are used: hours up to two days, as in `24 h`. */
const units: readonly (readonly [number, string, number])[] = [
  [86_400, "d", 172_800],
  [3_600, "h", 3_600],
  [60, "min", 60],
];

/** Returns a length of time in whole units, such as `3 h`. */
export const lasting = (seconds: unknown): string => {
  const length = numberIn(seconds);
  const [size, unit] = units.find(([, , from]) => Math.abs(length) >= from) ?? [1, "s"];
  return `${Math.trunc(length / size)} ${unit}`;
};

const sized = (bytes: unknown): string => {
  let size = numberIn(bytes);
  for (const unit of ["B", "KiB", "MiB"]) {
    if (size < 1024) return `${unit === "B" ? size : size.toFixed(1)} ${unit}`;
    size /= 1024;
  }
  return `${size.toFixed(1)} GiB`;
};

/** Formats values by the end of their column's name. */
const formats: Readonly<Record<string, (value: unknown) => string>> = {
  seconds: lasting,
  bytes: sized,
  at: (value) => `${new Date(String(value)).toISOString().slice(0, 16).replace("T", " ")} UTC`,
  hash: (value) => shown(value).slice(0, 12),
};

/**
 * Returns the rows as lines, each with its first column and then the others that have a value: `- web-01: state stale, heartbeat age 2 h`. A
 * column of one word is a count when it ends in `s`, as in `- stale: 12 hosts`.
 */
export const listed = (rows: readonly Row[]): string[] =>
  rows.map((row) => {
    const [[, first] = [], ...others] = Object.entries(row);
    const values = others.flatMap(([name, value]) => {
      if (value === null || value === undefined || value === "" || value === "0" || value === 0) return [];
      const [, words = name, end = ""] = /^(.*)_([a-z]+)$/.exec(name) ?? [];
      const format = formats[end];
      if (format) return [`${words.replaceAll("_", " ")} ${format(value)}`];
      return [
        /^[a-z]+s$/.test(name) && numberIn(value) > 0
          ? counted(value, name.slice(0, -1))
          : `${name.replaceAll("_", " ")} ${shown(value)}`,
      ];
    });
    return `- ${shown(first)}${values.length > 0 ? `: ${values.join(", ")}` : ""}`;
  });
