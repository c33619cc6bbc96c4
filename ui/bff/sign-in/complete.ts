import type { Web } from "../web.ts";
import type { Attempt } from "./attempt.ts";
import { type AuthorizationCode, CodeRefused } from "./authorization-code.ts";
import { type Exchanges, GaveWay } from "./exchanges.ts";
import { findPersonBySubject } from "./people.ts";
import { type Provider, ProviderUnavailable } from "./provider.ts";
import { Refusal } from "./refusal.ts";

/** Who passed the gate. */
export interface AdmittedPerson {
  userId: string;
  displayName: string;
}

/**
 * The sign-in gate (spec, "Operator login"): checks the provider's answer against the attempt, exchanges its code, verifies the
 * id_token, and lets an active person of the directory in. Throws a `Refusal` for everybody else.
 */
export const createGate =
  (parts: Pick<Web, "config" | "db"> & GateParts) =>
  async (answer: URLSearchParams, attempt: Attempt | null, remoteAddress: string): Promise<AdmittedPerson> => {
    const subject = await subjectOf(parts, answer, { attempt, remoteAddress });
    const { tenantId } = parts.config;
    const person = await findPersonBySubject(parts.db, { tenantId, subject }).catch((cause: unknown) => {
      throw new Refusal("sign_in_unavailable", { cause });
    });
    if (person === undefined) throw new Refusal("not_in_directory", { person: { userId: null, subject } });
    const { userId, displayName, status } = person;
    if (status !== "active") throw new Refusal(status, { person: { userId, subject } });
    return { userId, displayName };
  };

interface GateParts {
  provider: Provider;
  flow: AuthorizationCode;
  exchanges: Exchanges;
}

/** The answer of a provider must not hold a parameter twice (RFC 6749, 3.1). */
const only = (answer: URLSearchParams, name: string): string | null => {
  const values = answer.getAll(name);
  if (values.length > 1) throw failed(`${name} is there twice`);
  return values[0] ?? null;
};

const failed = (reason: string, cause?: unknown): Refusal =>
  new Refusal("sign_in_failed", { cause: new Error(reason, { cause }) });

const subjectOf = async (
  { provider, flow, exchanges }: GateParts,
  answer: URLSearchParams,
  { attempt, remoteAddress }: { attempt: Attempt | null; remoteAddress: string },
): Promise<string> => {
  if (attempt === null) throw failed("there is no sign-in under way");
  if (only(answer, "state") !== attempt.state) throw failed("state is another one");
  const metadata = await provider.metadata().catch(unavailable);
  const issuer = only(answer, "iss");
  if (issuer === null ? metadata.namesIssuerInResponse : issuer !== metadata.issuer)
    throw failed("iss is not the provider's");
  const error = only(answer, "error");
  if (error === "access_denied") throw new Refusal("sign_in_cancelled");
  if (error !== null) throw failed("the provider answered with an error");
  const code = only(answer, "code");
  if (code === null) throw failed("there is no code");

  const exchange = async (signal: AbortSignal): Promise<string> => {
    const grant = { code, codeVerifier: attempt.codeVerifier };
    const idToken = await flow.exchange(metadata.tokenEndpoint, grant, { signal }).catch((cause: unknown) => {
      throw cause instanceof CodeRefused ? failed("the code was refused", cause) : unavailable(cause);
    });
    return provider.subjectOf(idToken, attempt).catch((cause: unknown) => {
      if (cause instanceof ProviderUnavailable) return unavailable(cause);
      // The provider took the code, so this is no noise of strangers.
      throw new Refusal("sign_in_failed", { cause, person: { userId: null, subject: null } });
    });
  };
  return exchanges
    .run({ attempt: attempt.state, address: remoteAddress }, exchange)
    .catch((cause: unknown) => (cause instanceof GaveWay ? unavailable(cause) : Promise.reject(cause)));
};

const unavailable = (cause: unknown): never => {
  throw new Refusal("sign_in_unavailable", { cause });
};
