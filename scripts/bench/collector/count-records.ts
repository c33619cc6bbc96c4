import { BinaryReader, WireType } from "@bufbuild/protobuf/wire";

/** Field numbers from an export request to its spans or log records, the same for both. */
const path = [1, 2, 2];

/** Returns the number of spans or log records of an OTLP export request, without decoding them. */
export const countRecords = (bytes: Uint8Array, depth = 0): number => {
  const reader = new BinaryReader(bytes);
  let records = 0;
  while (reader.pos < reader.len) {
    const [field, wireType] = reader.tag();
    if (field !== path[depth] || wireType !== WireType.LengthDelimited) {
      reader.skip(wireType, field);
      continue;
    }
    const length = reader.uint32();
    const end = reader.pos + length;
    records +=
      depth === path.length - 1 ? 1 : countRecords(bytes.subarray(reader.pos, end), depth + 1);
    reader.pos = end;
  }
  return records;
};
