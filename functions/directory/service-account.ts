import * as v from "valibot";
import { isConfidentialUrl } from "#kit/confidential-url.ts";
import { DirectoryFault } from "./snapshot.ts";

/** The parts of a Google key file for a token request. */
export interface ServiceAccount {
  clientEmail: string;
  privateKeyPem: string;
  tokenUri: string;
}

const text = v.pipe(v.string(), v.nonEmpty());
const KeyFile = v.object({
  type: v.literal("service_account"),
  client_email: text,
  private_key: v.pipe(text, v.includes("PRIVATE KEY-----")),
  token_uri: v.pipe(text, v.check(isConfidentialUrl)),
});

/** Parses a service account's key file. Throws `DirectoryFault` with the variable and the names of invalid fields, never their values. */
export const parseServiceAccount = (contents: string): ServiceAccount => {
  const parsed = v.safeParse(KeyFile, jsonOf(contents));
  if (!parsed.success) {
    const fields = new Set(parsed.issues.map((issue) => v.getDotPath(issue) ?? "the whole"));
    throw unusable(`is not a service account's key: ${[...fields].join(", ")}`);
  }
  const { client_email, private_key, token_uri } = parsed.output;
  return { clientEmail: client_email, privateKeyPem: private_key, tokenUri: token_uri };
};

const jsonOf = (contents: string): unknown => {
  try {
    return JSON.parse(contents);
  } catch {
    throw unusable("is not JSON");
  }
};

const unusable = (fault: string) =>
  new DirectoryFault(
    "key_file_unusable",
    `SVC_DIRECTORY_SERVICE_ACCOUNT_KEY_FILE: the key file ${fault}`,
  );
