import { basename, dirname } from "node:path";
import type { CollectorConfig } from "../../proto/collector-config/parse.ts";
import { credentialFiles } from "./identity-directory.ts";

/**
 * The identity directory that the config's pair lives in, if `cert_file` and `key_file` have the layout that `enroll` makes; only
 * there can both be replaced as one. Undefined for files that are laid out by hand.
 */
export const identityDirectoryOf = ({ forwarder }: Pick<CollectorConfig, "forwarder">): string | undefined => {
  const { certFile, keyFile } = forwarder.mtls;
  const link = dirname(certFile);
  const known =
    basename(link) === "current" &&
    dirname(keyFile) === link &&
    basename(certFile) === credentialFiles.certificate &&
    basename(keyFile) === credentialFiles.key;
  return known ? dirname(link) : undefined;
};
