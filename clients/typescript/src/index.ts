export { Client, contentType, type Options, type Picture, type Submission, type Tokens } from "./client.js";
export { AnswerLost, ApiError, retryAfterSeconds } from "./core.js";
export type * as models from "./models.js";
export { type ArtiwayEvent, EventParser, TextBuilder } from "./streams.js";
export { InvalidSignature, verify } from "./webhooks.js";
