import { Problem } from "../problems.ts";
import { entriesMax } from "./examine-frame.ts";
import { eachField, WireError } from "./span-names.ts";

/** An envelope or an attribute takes a tag and a length at least. */
const entryBytesMin = 2;

/** The number of `frame` in a message that holds one (ingest.proto). */
export const frameField = { forward: 2, submit: 1 } as const;

/**
 * Refuses an encoded request that holds more than `entriesMax` envelopes and attributes with `frame_too_large`: envelopes = 4,
 * attributes = 5 (ingest.proto). Before the message is decoded, which would keep core busy for a second; so one that is large enough
 * for so many and cannot be counted, by its groups or other faults, is `frame_invalid`, whatever a decoder would make of it.
 */
export const checkEntries = (request: Uint8Array, field: number = frameField.forward): void => {
  if (request.length < entriesMax * entryBytesMin) return;
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
  } catch (cause) {
    if (!(cause instanceof WireError)) throw cause;
    throw new Problem("frame_invalid", { detail: "the message is not plain protobuf", cause });
  }
  if (entries > entriesMax) throw new Problem("frame_too_large");
};

const [brace, bracket, quote, backslash, colon] = [0x7b, 0x5b, 0x22, 0x5c, 0x3a];
/** Of an envelope in JSON, beside its attributes: sequence, kind, source and payload, or some of them. */
const membersOfEntry = 4;

/** The same of a request in JSON, by its objects, arrays and members: no exact count, but a bound of what parsing it costs. */
export const checkJsonEntries = (request: Uint8Array): void => {
  let nested = 0;
  let members = 0;
  let isText = false;
  for (let at = 0; at < request.length; at++) {
    const byte = request[at];
    if (byte === quote) isText = !isText;
    else if (isText) {
      if (byte === backslash) at++;
    } else if (byte === brace || byte === bracket) nested++;
    else if (byte === colon) members++;
  }
  if (nested > 2 * entriesMax || members > (membersOfEntry + 1) * entriesMax) throw new Problem("frame_too_large");
};
