import { entriesMax } from "./examine-frame.ts";
import { eachField, WireError } from "./span-names.ts";

/** An envelope or an attribute takes a tag and a length at least. */
const entryBytesMin = 2;

/**
 * Whether an encoded `ForwardRequest` holds more than `entriesMax` envelopes and attributes: frame = 2, envelopes = 4, attributes = 5
 * (ingest.proto). Told before the message is decoded, which would keep core busy for a second. False for what is no protobuf.
 */
export const holdsTooManyEntries = (request: Uint8Array): boolean => {
  if (request.length < entriesMax * entryBytesMin) return false;
  let entries = 0;
  try {
    eachField({ bytes: request, at: 0, end: request.length }, 2, (frame) =>
      eachField(frame, 4, (envelope) => {
        entries++;
        eachField(envelope, 5, () => {
          entries++;
        });
      }),
    );
  } catch (error) {
    if (error instanceof WireError) return false;
    throw error;
  }
  return entries > entriesMax;
};
