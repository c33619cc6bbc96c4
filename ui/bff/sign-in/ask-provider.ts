import { readBytes } from "../../../kit/bytes.ts";
import { withTimeout } from "../../../kit/with-timeout.ts";
import type { Web } from "../web.ts";

/** What the provider answered, whatever its status. */
export interface ProviderAnswer {
  status: number;
  text: string;
}

/**
 * Asks an endpoint of the provider. Throws when there is no whole answer within five seconds, when it redirects or is over 1 MiB, and
 * when `signal` aborts; whichever it is, the connection ends with it.
 */
export type AskProvider = (url: string, request?: Omit<RequestInit, "redirect">) => Promise<ProviderAnswer>;

const timeoutMs = 5000;
const answerBytesMax = 1024 * 1024;

/** The JSON of an answer. Throws without quoting it, as `JSON.parse` would: it may hold a token. */
export const jsonOf = ({ status, text }: ProviderAnswer): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`the provider's answer (status ${status}) is not JSON`);
  }
};

/** Makes it over `fetch`. */
export const createAskProvider =
  ({ fetch, clock }: Pick<Web, "fetch" | "clock">): AskProvider =>
  async (url, { signal, ...request } = {}) => {
    const ended = new AbortController();
    const ask = async (): Promise<ProviderAnswer> => {
      const response = await fetch(url, {
        ...request,
        redirect: "error",
        signal: signal ? AbortSignal.any([signal, ended.signal]) : ended.signal,
      });
      const bytes = await readBytes(response.body ?? [], answerBytesMax);
      if (bytes === null) throw new Error("the provider's answer is over 1 MiB");
      return { status: response.status, text: new TextDecoder().decode(bytes) };
    };
    try {
      return await withTimeout(timeoutMs, clock, ask());
    } finally {
      ended.abort();
    }
  };
