/*
 * Finds secrets of known forms in texts. A search takes time linear in a text's length, whatever its content: a form has a limit, or begins
 * only where a word does. Texts may be JSON, so a word also begins behind an escape: the secret in `\nsecret` does not begin with `n`.
 */
import { jsonLimits, parseForeignJson } from "#kit/foreign-json.ts";
import type { redactPresets } from "#proto/collector-config/processors.ts";
import { fromBase64url, isRecord } from "#proto/values.ts";

/** A form of secrets, by its name in a config. */
export type SecretForm = (typeof redactPresets)[number];

interface Form {
  /** Returns where the first one may begin, at the earliest; -1 if there is none. Cheap, since most texts have none. */
  find(text: string): number;
  /** Matches one. The group `before` has what belongs to it before that. */
  readonly pattern: RegExp;
  /** Returns whether a match is one. */
  confirms?(match: string): boolean;
}

/** An escape of JSON, or a backslash that is none. */
const jsonEscape = String.raw`\\(?:[^u]|u[\da-fA-F]{4}|u(?![\da-fA-F]{4}))`;

/** Matches what is before a word of these characters. */
const beforeWord = (characters: string): string => `^|[^\\\\${characters}]|${jsonEscape}`;

const issuers = [
  // Visa; Mastercard; American Express; Diners Club.
  String.raw`4(?:\d{12}|\d{15}|\d{18})`,
  String.raw`(?:5[1-5]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}`,
  String.raw`3[47]\d{13}`,
  String.raw`3(?:0[0-5]|[689]\d)\d{11}`,
  // Discover, UnionPay, JCB and Mir; Maestro.
  String.raw`(?:6011|64[4-9]\d|65\d\d|62\d\d|352[89]|35[3-8]\d|220[0-4])\d{12,15}`,
  String.raw`(?:5018|5020|5038|6304|6759|676[1-3])\d{9,15}`,
];
const issued = new RegExp(`^(?:${issuers.join("|")})$`);

/** Reports whether digits, maybe in groups, are a number that an issuer of cards gives. */
const isCardNumber = (match: string): boolean => {
  const digits = match.replaceAll(/\D/g, "");
  return issued.test(digits) && luhnSum(digits) % 10 === 0;
};

const digitZero = 0x30;
const space = 0x20;
const hyphen = 0x2d;

/** Sums digits as ISO/IEC 7812 does: each second one from the right doubled. */
const luhnSum = (digits: string): number => {
  let sum = 0;
  for (let index = 0; index < digits.length; index++) {
    const digit = digits.charCodeAt(digits.length - 1 - index) - digitZero;
    const doubled = index % 2 === 0 ? digit : 2 * digit;
    sum += doubled > 9 ? doubled - 9 : doubled;
  }
  return sum;
};

/** Reports whether the first part is the header of a JSON Web Token (RFC 7515, RFC 7516). */
const isJwt = (match: string): boolean => {
  const bytes = fromBase64url(match.slice(0, match.indexOf(".")));
  if (bytes === null) return false;
  try {
    const parsed = parseForeignJson(bytes, jsonLimits.otlp);
    return isRecord(parsed) && typeof parsed.alg === "string";
  } catch {
    return false;
  }
};

/** The end of a name with `@` that is a unit or a file, as `user@1000.service` and `icon@2x.png`. */
const noDomain =
  /\.(?:service|socket|device|mount|automount|swap|target|path|timer|slice|scope|png|jpe?g|gif|svg|webp|js|css)$/i;

const isDigit = (code: number): boolean => code >= digitZero && code < digitZero + 10;
const isOfCard = (code: number): boolean => isDigit(code) || code === space || code === hyphen;

/** The fewest digits of a card. */
const cardDigitsMin = 13;

/** Finds as many digits as a card has, maybe with spaces and hyphens between them. Reads hardly more than each thirteenth character. */
const findCardDigits = (text: string): number => {
  let end = -1;
  while (end + cardDigitsMin < text.length) {
    let start = end + cardDigitsMin + 1;
    while (start > end + 1 && isOfCard(text.charCodeAt(start - 1))) start -= 1;
    let digits = 0;
    for (end = start; isOfCard(text.charCodeAt(end)); end++)
      if (isDigit(text.charCodeAt(end))) digits += 1;
    if (digits >= cardDigitsMin) return start;
  }
  return -1;
};

const beforeCard = beforeWord(String.raw`\w`);
const groupsOfFour = String.raw`\d{4}([ -])\d{4}\1\d{4}\1\d{4}(?:\1\d{3})?`;
const groupsOfSix = String.raw`\d{4}([ -])\d{6}\2\d{4,5}`;

const beforeEmail = beforeWord(String.raw`\w.%+-`);
const domain = String.raw`(?:[A-Za-z\d][A-Za-z\d-]{0,62}\.){1,8}[A-Za-z]{2,24}`;

const awsId = String.raw`(?<![A-Z\d])A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{16}(?![A-Za-z\d])`;
// Not `(?i:…)`: of 4,000 names in a test, V8 once found those in lower case alone.
const awsName = `[Ss]ecret[_-]?(?:[Aa]ccess[_-]?)?[Kk]ey|SECRET[_-]?(?:ACCESS[_-]?)?KEY|A[KS]IA[A-Z2-7]{16}`;
const awsSecret = String.raw`[A-Za-z\d/+]{40}(?![A-Za-z\d/+=])`;

const beforeJwt = beforeWord(String.raw`\w-`);

const forms: Readonly<Record<SecretForm, Form>> = {
  card: {
    find: findCardDigits,
    pattern: new RegExp(
      `(?=\\d{4})(?<=${beforeCard})(?<!\\d\\.)(?:\\d{13,19}|${groupsOfFour}|${groupsOfSix})(?!\\w|\\.\\d)`,
      "g",
    ),
    confirms: isCardNumber,
  },
  email: {
    find: (text) => text.search(/@|%40/),
    pattern: new RegExp(
      `(?:@|%40)(?<=(?:${beforeEmail})(?<before>[\\w.%+-]{1,64})(?:@|%40))${domain}(?![\\w-]|\\.[A-Za-z\\d])`,
      "g",
    ),
    confirms: (match) => !noDomain.test(match),
  },
  bearer_token: {
    find: (text) => text.search(/bearer/i),
    // Words have no digits; a token of letters alone is long.
    pattern:
      /(?<=bearer(?:[\s:="'+\\]|%20){1,4})(?:(?=[\w.~+/-]{0,512}\d)[\w.~+/-]{8,}|[\w.~+/-]{20,})=*/gi,
  },
  aws_key: {
    find: (text) => text.search(/A(?:KIA|SIA|BIA|CCA)[A-Z2-7]{8}|secret[_-]?(?:access[_-]?)?key/i),
    // The id of a key; and its secret, behind its name or the id.
    pattern: new RegExp(`${awsId}|(?<=(?:${awsName})[\\s"'\\\\,:;|=]{1,8})${awsSecret}`, "g"),
  },
  jwt: {
    find: (text) => text.search(/eyJ/),
    pattern: new RegExp(`(?<=${beforeJwt})eyJ[\\w-]{5,8192}(?:\\.[\\w-]*){1,3}\\.[\\w-]+`, "g"),
    confirms: isJwt,
  },
  url_password: {
    find: (text) => text.search(/:(?:\\?\/){2}[^\s/]*@/),
    pattern: /(?<=:(?:\\?\/){2}[^\s:/?#@"'<>\\]{0,256}:)[^\s/?#"'<>\\]+(?=@)/g,
  },
};

/** Returns a text in which each secret of a form is replaced. */
export const replaceSecrets = (text: string, form: SecretForm, replacement: string): string => {
  const { find, pattern, confirms } = forms[form];
  const first = find(text);
  if (first === -1) return text;
  let replaced = "";
  let copied = 0;
  pattern.lastIndex = first;
  for (let match = pattern.exec(text); match !== null; match = pattern.exec(text)) {
    const { 0: found, index, groups: { before = "" } = {} } = match;
    const start = index - before.length;
    if (start < copied || confirms?.(before + found) === false) continue;
    replaced += text.slice(copied, start) + replacement;
    copied = index + found.length;
  }
  return replaced + text.slice(copied);
};
