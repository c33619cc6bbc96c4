/**
 * Lowers ASCII letters alone. Unicode lowers the Kelvin sign to an ASCII `k`, which would make a look-alike equal to a name or domain that
 * grants something.
 */
export const lowerAscii = (text: string): string =>
  text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase());
