import { type AccountCore, createAccountAcceptor } from "./domain/telemetry/accept-account.ts";
import type { AccountRegister } from "./ingest/accounts.ts";

/** Creates what decides on accounts of the stream. */
export const createAccountRegister = (core: AccountCore): AccountRegister => {
  const accept = createAccountAcceptor(core);
  return {
    accept: ({ identity, fingerprintSha256, connection }, account, stream) =>
      accept({ identity, fingerprintSha256, der: connection?.der }, account, stream),
  };
};
