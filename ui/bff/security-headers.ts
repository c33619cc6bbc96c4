import type { WebConfig } from "./config.ts";

/**
 * The headers of every answer (A7). No inline script or style, no frame, nothing from another origin. `Referrer-Policy` is not
 * `no-referrer`: under that browsers send `Origin: null` with a form, and the origin check needs it.
 */
export const securityHeaders = ({ secure }: Pick<WebConfig, "secure">): Readonly<Record<string, string>> => ({
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "font-src 'self'",
    "connect-src 'self'",
    "manifest-src 'self'",
    "form-action 'self'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join("; "),
  "X-Content-Type-Options": "nosniff",
  "Referrer-Policy": "same-origin",
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
  ...(secure ? { "Strict-Transport-Security": "max-age=31536000" } : {}),
});
