/**
 * Lowers only ASCII letters. Unicode lowers the Kelvin sign to an ASCII `k`, which would make a look-alike equal to a name or domain that grants
 * access.
 */
export const lowerAscii = (text: string): string =>
  text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
