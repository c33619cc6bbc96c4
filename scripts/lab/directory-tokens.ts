import { exportPKCS8, generateKeyPair, jwtVerify } from "jose";
import type { DirectoryReply } from "./directory-api.ts";

const grantType = "urn:ietf:params:oauth:grant-type:jwt-bearer";
const lifetimeSeconds = 3599;
const clientEmail = "svc-directory@fleet-lab.iam.gserviceaccount.test";

const refused = (status: number, error: string, error_description: string): DirectoryReply => ({
  status,
  body: { error, error_description },
});

/** Creates the token endpoint of a Google-like provider, with one service account that may impersonate `delegates`, for `scopes` only. */
export const createDirectoryTokens = async (options: {
  delegates: readonly string[];
  scopes: readonly string[];
}) => {
  const { publicKey, privateKey } = await generateKeyPair("RS256", { extractable: true });
  const issued = new Map<string, { scopes: readonly string[]; expiresAt: number }>();
  return {
    clientEmail,
    privateKeyPem: await exportPKCS8(privateKey),
    /** Answers the JWT bearer grant (RFC 7523) of a form body; `audience` is the token endpoint's own URL. */
    async grant(form: URLSearchParams, audience: string): Promise<DirectoryReply> {
      if (form.get("grant_type") !== grantType)
        return refused(400, "unsupported_grant_type", "Invalid grant_type");
      const verified = await jwtVerify(form.get("assertion") ?? "", publicKey, {
        algorithms: ["RS256"],
        issuer: clientEmail,
        audience,
        requiredClaims: ["iss", "aud", "iat", "exp", "scope"],
      }).catch((cause: unknown) => String(cause));
      if (typeof verified === "string")
        return refused(400, "invalid_grant", `Invalid JWT: ${verified}`);
      const { sub, iat = 0, exp = 0, scope } = verified.payload;
      if (exp - iat > 3600)
        return refused(400, "invalid_grant", "Invalid JWT: its lifetime exceeds an hour");
      // Without `sub` the account would act as itself, which has no directory.
      if (sub === undefined || !options.delegates.includes(sub))
        return refused(400, "invalid_grant", "Invalid email or User ID");
      const scopes = String(scope).split(" ");
      if (!scopes.every((name) => options.scopes.includes(name)))
        return refused(
          401,
          "unauthorized_client",
          "Client is unauthorized to retrieve access tokens using this method, or client not authorized for any of the scopes requested.",
        );
      const token = `ya29.${crypto.getRandomValues(new Uint8Array(24)).toHex()}`;
      issued.set(token, { scopes, expiresAt: Date.now() + lifetimeSeconds * 1000 });
      return {
        status: 200,
        body: { access_token: token, expires_in: lifetimeSeconds, token_type: "Bearer" },
      };
    },
    /** Returns the scopes of the token in this `Authorization` header; null unless it is valid. */
    scopesOf(authorization: string | undefined): readonly string[] | null {
      const token = issued.get(/^Bearer (\S+)$/.exec(authorization ?? "")?.[1] ?? "");
      return token && token.expiresAt > Date.now() ? token.scopes : null;
    },
  };
};
