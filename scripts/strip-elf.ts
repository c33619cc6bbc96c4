/** `node scripts/strip-elf.ts <source> <target>`: strips an executable; for the images, whose build has no binutils. */
import { chmodSync, readFileSync, writeFileSync } from "node:fs";

const elf64LittleEndian = Buffer.from([0x7f, 0x45, 0x4c, 0x46, 2, 1]);
/** Fields of the header of a 64-bit ELF file (elf(5)). */
const header = {
  segmentsAt: 32,
  sectionsAt: 40,
  segmentBytes: 54,
  segmentCount: 56,
  sectionCount: 60,
  sectionNames: 62,
};

/**
 * Returns the program of an ELF file without its symbols, debug information and table of sections: what follows the last segment, which no
 * loader reads. Returns other files unchanged. The result depends on the input alone, unlike that of `strip`, whose versions differ.
 */
export const stripElf = (file: Buffer): Buffer => {
  if (!file.subarray(0, elf64LittleEndian.length).equals(elf64LittleEndian)) return file;
  const first = Number(file.readBigUInt64LE(header.segmentsAt));
  const bytes = file.readUInt16LE(header.segmentBytes);
  const ends = Array.from({ length: file.readUInt16LE(header.segmentCount) }, (_, index) => {
    const at = first + index * bytes;
    return Number(file.readBigUInt64LE(at + 8) + file.readBigUInt64LE(at + 32));
  });
  const stripped = Buffer.from(file.subarray(0, Math.max(...ends)));
  stripped.writeBigUInt64LE(0n, header.sectionsAt);
  stripped.writeUInt16LE(0, header.sectionCount);
  stripped.writeUInt16LE(0, header.sectionNames);
  return stripped;
};

/** Writes a stripped copy of an executable to `target`, which anyone may execute. */
export const copyStripped = (source: string, target: string): void => {
  writeFileSync(target, stripElf(readFileSync(source)));
  chmodSync(target, 0o755);
};

if (import.meta.main) {
  const [source, target] = process.argv.slice(2);
  if (source === undefined || target === undefined)
    throw new TypeError("usage: strip-elf.ts <source> <target>");
  copyStripped(source, target);
}
