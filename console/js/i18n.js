/** Words in both languages. A word that is missing shows its key, so that it is noticed. */
const WORDS = {
  skip: ["Skip to content", "跳到正文"],
  logout: ["Log out", "退出"],
  login: ["Log in", "登录"],
  register: ["Create an account", "注册账号"],
  loginField: ["E-mail or phone", "邮箱或手机号"],
  password: ["Password", "密码"],
  email: ["E-mail", "邮箱"],
  company: ["Company", "公司名称"],
  noAccount: ["No account yet?", "还没有账号？"],
  haveAccount: ["Have an account?", "已有账号？"],
  home: ["Overview", "概览"],
  wallet: ["Wallet", "钱包"],
  team: ["Team", "团队"],
  ops: ["Operations", "运维"],
  points: ["points", "积分"],
  available: ["Available", "可用积分"],
  frozen: ["Frozen for running work", "进行中冻结"],
  recharge: ["Recharge", "充值"],
  pay: ["Pay", "支付"],
  scan: ["Scan with WeChat, or open the link:", "请用微信扫码，或打开链接："],
  waitingForPayment: ["Waiting for the payment …", "等待支付……"],
  paid: ["Paid. The points are yours.", "支付成功，积分已到账。"],
  closed: ["The order was closed.", "订单已关闭。"],
  ledger: ["Ledger", "积分明细"],
  exportCsv: ["Export CSV", "导出 CSV"],
  more: ["Show more", "加载更多"],
  when: ["When", "时间"],
  kind: ["Kind", "类型"],
  change: ["Change", "变动"],
  frozenChange: ["Frozen", "冻结变动"],
  balance: ["Balance", "余额"],
  reference: ["Reference", "关联"],
  nothing: ["Nothing here yet.", "暂无数据。"],
  people: ["People", "成员"],
  invite: ["Invite", "邀请"],
  roles: ["Roles", "角色"],
  status: ["Status", "状态"],
  disable: ["Disable", "停用"],
  enable: ["Enable", "启用"],
  keys: ["API keys", "API 密钥"],
  name: ["Name", "名称"],
  createKey: ["Create key", "创建密钥"],
  keyOnce: ["Copy this key now. It is not shown again.", "请立即复制密钥，之后不再显示。"],
  revoke: ["Revoke", "吊销"],
  permissions: ["Permissions", "权限"],
  lanes: ["Lanes", "队列"],
  lane: ["Lane", "队列"],
  depth: ["Waiting", "等待"],
  running: ["Running", "运行中"],
  parallelism: ["Parallelism", "并行度"],
  limit: ["Limit", "上限"],
  pause: ["Pause", "暂停"],
  resume: ["Resume", "恢复"],
  paused: ["paused", "已暂停"],
  open: ["open", "开放"],
  set: ["Set", "设置"],
  shares: ["Share of the GPUs against weight, last hour", "近一小时 GPU 份额与权重对比"],
  sharesHint: ["The bar is what a tenant got, the mark is what its weight entitles it to.", "色条为实际份额，竖线为按权重应得份额。"],
  bound: ["Fairness bound", "公平性上界"],
  worst: ["worst pair", "最差一对"],
  workers: ["Workers", "工作节点"],
  worker: ["Worker", "节点"],
  types: ["Types", "类型"],
  slots: ["Slots", "槽位"],
  lastBeat: ["Last beat", "最近心跳"],
  health: ["Health", "健康"],
  degraded: ["Part of the platform is away: ", "部分服务不可用："],
  apiDocs: ["API documentation", "API 文档"],
  welcome: ["Pictures that sell, at your fair share of the GPUs.", "按公平份额使用 GPU，生成好卖的图片。"],
  you: ["You", "你"],
  tier: ["Tier", "等级"],
  studio: ["Studio", "工作室"],
  tool: ["Tool", "工具"],
  group_ai_model: ["AI model", "AI 模特"],
  group_product_picture: ["Product picture", "商品图"],
  group_smart_edit: ["Smart edit", "智能编辑"],
  group_batch: ["Batch", "批量处理"],
  picture: ["Picture", "图片"],
  count: ["How many", "数量"],
  options: ["Options", "选项"],
  submit: ["Make it", "开始生成"],
  uploadFailed: ["The upload failed", "上传失败"],
  history: ["History", "历史"],
  show: ["Show", "查看"],
  cancel: ["Cancel", "取消"],
  why: ["Why is it waiting?", "为何等待？"],
  before: ["Before it", "前面排队"],
  yes: ["yes", "是"],
  no: ["no", "否"],
  waiting_dependency: ["an earlier step", "等待前置步骤"],
  waiting_tenant_cap: ["your tenant's concurrency", "租户并发上限"],
  waiting_user_cap: ["your own concurrency", "用户并发上限"],
  waiting_model_cap: ["the model's limit", "模型并发上限"],
  waiting_lane_paused: ["the lane is paused", "队列已暂停"],
  waiting_lane_cap: ["the lane's parallelism", "队列并行上限"],
  waiting_no_worker: ["no worker is there", "暂无工作节点"],
  waiting_turn: ["its turn", "等待轮到"],
  waiting_none: ["nothing", "无需等待"],
  notAllowed: ["You may not see this page.", "你没有权限查看此页。"],
};

let column = (localStorage.getItem("language") || navigator.language).startsWith("zh") ? 1 : 0;

export const t = (key) => WORDS[key]?.[column] ?? key;
export const locale = () => (column ? "zh-CN" : "en");

export function setLanguage(toggle = false) {
  if (toggle) {
    column = 1 - column;
    localStorage.setItem("language", locale());
  }
  document.documentElement.lang = locale();
  const button = document.getElementById("language");
  button.textContent = column ? "English" : "中文";
  button.lang = column ? "en" : "zh";
  for (const element of document.querySelectorAll("[data-text]")) element.textContent = t(element.dataset.text);
}

export const time = (iso) => new Date(iso).toLocaleString(locale());
export const number = (value) => Number(value).toLocaleString(locale());
export const yuan = (fen) => `¥${(fen / 100).toFixed(2)}`;
