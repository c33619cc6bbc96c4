/** The LIKE pattern that finds `text` anywhere; `%`, `_` and `\` in it stand for themselves. */
export const substring = (text: string): string => `%${text.replace(/[\\%_]/g, "\\$&")}%`;
