import { entriesMax } from "./examine-frame.ts";
import { eachField, WireError } from "./span-names.ts";

/** An envelope or an attribute takes a tag and a length at least. */
const entryBytesMin = 2;

/** The number of `frame` in a message that holds one (ingest.proto). */
export const frameField = { forward: 2, submit: 1 } as const;

/**
 * Whether an encoded request holds more than `entriesMax` envelopes and attributes: envelopes = 4, attributes = 5 (ingest.proto). Told
 * before the message is decoded, which would keep core busy for a second. False for what is no protobuf.
 */
export const holdsTooManyEntries = (request: Uint8Array, field: number = frameField.forward): boolean => {
  if (request.length < entriesMax * entryBytesMin) return false;
  let entries = 0;
  try {
    eachField({ bytes: request, at: 0, end: request.length }, field, (frame) =>
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

const [brace, quote, colon] = [0x7b, 0x22, 0x3a];
/** Of an envelope in JSON, beside its attributes: sequence, kind, source and payload, or some of them. */
const membersOfEntry = 4;

/** The same of a request in JSON, by its braces and members: no exact count, but a bound of what parsing it costs. */
export const holdsTooManyJsonEntries = (request: Uint8Array): boolean => {
  let objects = 0;
  let members = 0;
  for (let at = 0; at < request.length; at++) {
    const byte = request[at];
    if (byte === brace) objects++;
    else if (byte === colon && request[at - 1] === quote) members++;
  }
  return objects > 2 * entriesMax || members > (membersOfEntry + 1) * entriesMax;
};
