import { readFileSync } from "node:fs";
import type { CoreConfig } from "../config.ts";
import type { LicenseSource } from "../domain/licensing/license.ts";
import { withConfigError } from "./with-config-error.ts";

/** The license and the key that it is checked with; null for the community edition. Throws `ConfigError`. */
export const readLicense = async ({ license }: CoreConfig): Promise<LicenseSource | null> =>
  license && {
    token: license.token,
    publicKeyPem: await withConfigError("SVC_LICENSE_PUBLIC_KEY_FILE", () =>
      readFileSync(license.publicKeyFile, "utf8"),
    ),
  };
