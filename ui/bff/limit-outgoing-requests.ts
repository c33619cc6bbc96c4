import { Agent, type Dispatcher, setGlobalDispatcher } from "undici";
import { jsonLimits, limitJson } from "#kit/foreign-json.ts";

/** Longer than web waits for any response, so it only ends requests that web cannot abort. */
const silenceMsDefault = 35_000;

/**
 * Limits every `fetch` of this process, including arctic's: at most `silenceMs` for the headers and for each chunk of a body, and no redirects,
 * which could send a code or a token to another address. Limits the size of JSON from servers other than core.
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
