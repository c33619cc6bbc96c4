import { Agent, type Dispatcher, setGlobalDispatcher } from "undici";
import { jsonLimits, limitJson } from "#kit/foreign-json.ts";

/** Longer than web awaits any response: ends requests that web no longer awaits and cannot abort. */
const silenceMsDefault = 35_000;

/**
 * Bounds every `fetch` of this process: `silenceMs` for the headers and for each chunk of a body, and no redirects. Core and the identity
 * provider never redirect these calls, and following one would send a code or a token to another address. The JSON of any server but core
 * is limited, also where arctic reads it.
 */
export const limitOutgoingRequests = (coreUrl: string, silenceMs = silenceMsDefault): void => {
  setGlobalDispatcher(
    new Agent({
      headersTimeout: silenceMs,
      bodyTimeout: silenceMs,
      connect: { timeout: 5000 },
    }).compose(rejectRedirects),
  );
  const { fetch } = globalThis;
  globalThis.fetch = async (input, init) => {
    const response = await fetch(input, init);
    const { origin } = new URL(input instanceof Request ? input.url : input);
    return origin === new URL(coreUrl).origin
      ? response
      : limitJson(response, jsonLimits.providerAnswer);
  };
};

const rejectRedirects: Dispatcher.DispatcherComposeInterceptor = (dispatch) => (options, handler) =>
  dispatch(options, {
    onRequestStart: (...given) => handler.onRequestStart?.(...given),
    onRequestUpgrade: (...given) => handler.onRequestUpgrade?.(...given),
    onResponseStart: (controller, status, ...rest) => {
      if (status >= 300 && status < 400 && status !== 304)
        controller.abort(new Error(`redirected with ${status}`));
      else handler.onResponseStart?.(controller, status, ...rest);
    },
    onResponseData: (...given) => handler.onResponseData?.(...given),
    onResponseEnd: (...given) => handler.onResponseEnd?.(...given),
    onResponseError: (...given) => handler.onResponseError?.(...given),
  });
