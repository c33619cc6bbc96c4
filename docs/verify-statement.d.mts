/** The file is none of a statement. */
export class Malformed extends Error {}

/** Verifies the text of a file; `readBlock` returns the bytes of a block by its name. Throws `Malformed`. */
export const verifyStatement: (given: {
  file: string;
  keys: string;
  witness?: string;
  isUnbound?: boolean;
  readBlock?: (name: string, block: { size: number; isStored: boolean }) => Uint8Array | undefined;
}) => { faults: string[]; notices: string[]; summary: string };
