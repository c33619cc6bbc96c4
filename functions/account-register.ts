import { type AccountCore, createAccountAcceptor } from "./domain/telemetry/accept-account.ts";
import { createStreamRanges } from "./domain/telemetry/account-ranges.ts";
import type { AccountRegister } from "./ingest/accounts.ts";
import type { Sink } from "./ingest/sink.ts";

/** Creates what decides on accounts of the stream, with the ranges of the sink that stores their envelopes. */
export const createAccountRegister = (
  core: AccountCore,
  { countedOf }: Pick<Sink, "countedOf"> = {},
): AccountRegister => {
  const accept = createAccountAcceptor(core, {
    ranges: countedOf && createStreamRanges(countedOf),
  });
  return {
    accept: ({ identity, fingerprintSha256, connection }, account, stream) =>
      accept({ identity, fingerprintSha256, der: connection?.der }, account, stream),
  };
};
