import { create, toBinary } from "@bufbuild/protobuf";
import { expect, it } from "vitest";
import { AccountBodySchema } from "../gen/svc/ingest/v1/ingest_pb.js";
import { withLosses } from "./lost-ranges.ts";

/** Of the sequences 1 to 91, of which 67 were acknowledged under an earlier id of the queue. */
const account = {
  body: toBinary(AccountBodySchema, create(AccountBodySchema, { ackedBeforeThrough: 67n })),
  lastSequence: 91n,
  accepted: 91,
  discarded: 0,
  missing: 0,
};

it.each([
  { what: "one that was rejected under the earlier id", rejected: 1, stored: 24, left: 20 },
  { what: "one of its own that was rejected", rejected: 1, stored: 23, left: 19 },
  { what: "nothing but its own", rejected: 0, stored: 24, left: 20 },
])(
  "Q12: takes what a stream lost since from an account that names $what",
  ({ rejected, stored, left }) => {
    const before = { from: 62n, through: 67n, isOwn: false };
    const counts = { ...account, rejected, stored };
    // What was lost before the account is in it, once.
    for (const lost of [0, 6])
      expect(withLosses({ ...counts, lost }, [before])).toMatchObject({
        stored,
        rejected,
        lost: 6,
      });
    const own = { from: 70n, through: 73n, isOwn: true };
    expect(withLosses({ ...counts, lost: 6 }, [before, own])).toMatchObject({
      stored: left,
      rejected,
      lost: 10,
    });
  },
);
