/** What reorders the text around it without being seen itself (UAX #9, section 2). */
const directions = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** A text of a host with its invisible marks of direction spelled out, `[U+202E]`: a name cannot pose as another one. */
export const plainText = (text: string): string =>
  text.replace(directions, (mark) => `[U+${mark.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);
