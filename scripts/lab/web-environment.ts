import { systemEntropy } from "#kit/entropy.ts";
import { testTenantId } from "./people.ts";

/** The variables by which web knows an identity provider. */
export const providerEnvironment = (provider: {
  issuer: string;
  clientId: string;
  clientSecret: string;
}) => ({
  IDP_ISSUER: provider.issuer,
  IDP_CLIENT_ID: provider.clientId,
  IDP_CLIENT_SECRET: provider.clientSecret,
});

/** The environment of a web on a free port of loopback, which needs core and a database. Without a provider nobody can sign in. */
export const webEnvironment = (given: Readonly<Record<string, string>>) => ({
  PORT: "0",
  SVC_HTTP_HOST: "127.0.0.1",
  SVC_SHUTDOWN_DELAY: "0s",
  WEBAUTH_URL: "http://127.0.0.1:9",
  WEBAUTH_SECRET: systemEntropy.bytes(32).toHex(),
  ...providerEnvironment({ issuer: "http://127.0.0.1:9", clientId: "web", clientSecret: "secret" }),
  SVC_TENANT_ID: testTenantId,
  ...given,
});
