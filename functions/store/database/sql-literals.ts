/** Literals for statements that are sent together with others, and so cannot have parameters. Text contains no NUL. */

/** Returns a text as a literal. */
export const literal = (text: string): string => `'${text.replaceAll("'", "''")}'`;

/** Returns texts as the literal of an array. */
export const textArray = (values: readonly string[]): string =>
  literal(`{${values.map((value) => `"${value.replace(/["\\]/g, "\\$&")}"`).join(",")}}`);

/** Returns integers as the literal of an array. */
export const numberArray = (values: readonly (bigint | number)[]): string =>
  `'{${values.join(",")}}'`;

/** Returns a timestamp, in milliseconds since the Unix epoch, as a literal. */
export const timestampLiteral = (ms: number): string => `'${new Date(ms).toISOString()}'`;
