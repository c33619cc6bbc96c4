/** Returns the lines of a text without their line breaks; a break at the end begins no line. */
export const linesOf = (text: string): string[] => {
  const lines = text.split(/\r\n|\r|\n/);
  return lines.at(-1) === "" ? lines.slice(0, -1) : lines;
};
