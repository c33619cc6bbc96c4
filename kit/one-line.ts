/**
 * A line of JSON that every reader takes for one line: JSON leaves U+0085, U+2028 and U+2029 as they are, and some readers end a line
 * there, so they are escaped (I5).
 */
export const oneLine = (json: string): string =>
  json.replace(/[\u0085\u2028\u2029]/g, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`);
