import { readPublicKey, type SigningKey } from "#functions/signer/cryptography.ts";
import { isNoteKeyName, type NoteKey, noteKeyOf } from "#proto/completeness/signed-note.ts";

/** Signs the heads of the log of statements. */
export interface LogSigner {
  /** Its name is the origin of the log. */
  key: NoteKey;
  sign(data: Uint8Array): Promise<Uint8Array>;
}

/** Creates the signer of a log from an Ed25519 key. Throws `TypeError` for another key. */
export const createLogSigner = async (
  origin: string,
  signingKey: SigningKey,
): Promise<LogSigner> => {
  const parts = readPublicKey(signingKey.spki);
  if (parts?.algorithm !== "ed25519") throw new TypeError("must hold an Ed25519 key");
  if (!isNoteKeyName(origin))
    throw new TypeError("the origin of the log must have no spaces and no +");
  return { key: await noteKeyOf(origin, parts.bits), sign: async (data) => signingKey.sign(data) };
};
